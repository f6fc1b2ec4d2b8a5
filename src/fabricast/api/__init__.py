"""What `import fabricast` offers: functions that take names, files or arrays and return data frames."""
