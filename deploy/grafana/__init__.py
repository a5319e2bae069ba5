"""Grafana's dashboards as code: `python -m deploy.grafana` writes what the chart and the compose file mount."""
