"""Results of simulations as one HTML page: `page.page_of` makes it. It needs no network and no script."""
