"""What is learned of hosts, series by series, in columns: windows, forecasts and anomalies share one numbering of rows."""
