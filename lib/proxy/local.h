/* Answers weir gives itself: errors, and `respond` routes. The response message of the exchange must have no source and
 * no head yet; its request is stopped. */
#ifndef WR_PROXY_LOCAL_H
#define WR_PROXY_LOCAL_H

#include "base/err.h"
#include "http/exchange.h"
#include "proxy/route.h"

/* PSEUDONYM as the name of an intermediary in Proxy-Status (RFC 9209 section 2): a token as it is, anything else quoted
 * (RFC 8941 section 3.3). Owner: the caller (free()). */
char *wr_local_name(struct wr_str pseudonym);

/* Answers with the error's row of err.def and blames the exchange. NAME as made above. The format follows the request: gRPC
 * gets a trailers-only answer, JSON who asks for it, else plain text. An error without a status cannot be told: the response
 * is cancelled. */
void wr_local_error(struct wr_exchange *exchange, enum wr_err why, const char *name);

/* The same for an error of which a client may hope that it passes: RETRY_AFTER seconds. */
void wr_local_refusal(struct wr_exchange *exchange, enum wr_err why, const char *name,
                      uint32_t retry_after);

/* Answers as configured. OPTIONS outlive the exchange. Content of any size is made while it is taken. */
void wr_local_respond(struct wr_exchange *exchange, const struct wr_respond_options *options);

/* The answer to OPTIONS that is not to be passed on (RFC 9110 section 7.6.2). */
void wr_local_options(struct wr_exchange *exchange);

#endif
