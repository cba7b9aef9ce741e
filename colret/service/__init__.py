"""The HTTP service over an index, and its page: ``colret serve``.

    server      uvicorn, its limits on connections
    app         the application: what is below, put together
    routes      what is asked over HTTP: searching, documents, the page, operations
    questions   what may be asked, as OpenAPI describes it; conditions: which SQL
    answers     what is answered, the same way; telling: how it is made
    library     the index, opened once and found again after it was replaced; findings: what it finds
    batching    the one thread that searches, and the queue before it
    pictures    the one thread that draws pages, and the cache behind it
    guard       who may ask, and how much: keys, hosts, sizes, headers
    failures    what went wrong, as one line of JSON

It is imported by ``colret serve`` alone, and needs ``colret[serve]``.
"""
