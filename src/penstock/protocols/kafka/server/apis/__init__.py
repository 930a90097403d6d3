"""Request handlers, grouped by subject: one function per API. ``server.front.TABLE`` lists them."""
