"""The collector: decodes what producers send and writes facts with natural identities into the journal."""
