/* Scripts of test/e2e/node, run by a test. */
#ifndef TEST_SUPPORT_NODE_H
#define TEST_SUPPORT_NODE_H

#include "support/weir.h"

/* Runs SCRIPT (test/e2e/node/check.js says how it is called) with at most SECONDS to live, and fails the test, with its output, when
 * it does. Skips the test, with a message, where node or its packages are not installed. */
void node_run(struct weir *weir, int seconds, const char *script, int port, const char *security,
              const char *name);

#endif
