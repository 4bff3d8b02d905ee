"""What the OpenAPI document says of requests and answers; nothing here runs when a request is served."""
