"""How fast dibs is here and now, and whether that is fast enough. ``./dev bench --help`` says how to ask.

A figure is only worth something beside another one of the same run: that of the bare engine, of a smaller backlog, of
the peers. So what is compared is measured in turns, and the median of the turns is what counts.
"""
