"""What is learned of hosts, series by series, in columns: windows, forecasts and anomalies share one row index."""
