"""What MkDocs calls while it builds the site: pages from elsewhere in the repository, the reference, and links that fit."""

from typing import Any, Final

from mkdocs.structure.files import File, Files

from deploy.site import reference, sources

_LISTED_MAX: Final = 200


def on_files(files: Files, config: Any) -> Files:
    """Add what does not lie in `docs`: included pages, what pages link to, and the reference."""
    texts = {path: (sources.ROOT / path).read_text() for path in sources.pages()}
    for path, uri in sources.INCLUDED.items():
        files.append(File.generated(config, uri, content=texts[path]))
    for path in sources.attached(texts):
        _attach(files, config, path)
    for uri, text in reference.made().items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001  MkDocs names the arguments
    """Return a page with links as the site needs them."""
    uri = page.file.src_uri
    if uri.startswith((f"{reference.FOLDER}/", f"{sources.FILES}/")):
        return markdown
    return sources.rewritten(markdown, sources.origin(uri), uri)


def _attach(files: Files, config: Any, path: str) -> None:
    """Add a file, or a folder's files with a list of them."""
    whole = sources.ROOT / path
    if whole.is_file():
        _add(files, config, path)
        return
    inside = sorted(each.relative_to(sources.ROOT).as_posix() for each in whole.rglob("*") if each.is_file())
    shown = [each for each in inside if "__pycache__" not in each][:_LISTED_MAX]
    for each in shown:
        _add(files, config, each)
    files.append(File.generated(config, sources.listing_uri(path), content=sources.listing(path, shown)))


def _add(files: Files, config: Any, path: str) -> None:
    uri = sources.file_uri(path)
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, content=(sources.ROOT / path).read_bytes()))
