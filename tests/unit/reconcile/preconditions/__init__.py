"""What has to hold before two sides are compared."""
