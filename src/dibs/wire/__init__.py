"""What goes over HTTP, as data: the bodies of requests and answers, and a job as JSON.

The server decodes and encodes these, and the OpenAPI document is made from them, so what is written is what is served.
"""
