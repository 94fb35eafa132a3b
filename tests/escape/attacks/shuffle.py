# Moves a folder to and fro between the ends of the project, until somebody says stop.

import random

places = ["a/first/box", "z/last/box"]
put("started", "")
turn = 0
while not os.path.lexists("stop"):
    try:
        os.rename(places[turn], places[1 - turn])
    except OSError as error:
        say("rename", error.errno)
        break
    turn = 1 - turn
    # Not faster than a walk, so that some starts meet a quiet moment.
    time.sleep(random.uniform(0, 0.02))
done()
