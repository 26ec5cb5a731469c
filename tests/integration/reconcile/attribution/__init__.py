"""Attribution of causes to differences."""
