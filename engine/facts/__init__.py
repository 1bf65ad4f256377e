"""A program seen through its schemas: graphs, values, kinds."""
