/* An RSA key whose signatures are made when the test says so: holds up a signer thread for as long as is wanted. */
#ifndef TEST_SUPPORT_STUCK_KEY_H
#define TEST_SUPPORT_STUCK_KEY_H

#include <stdbool.h>

struct evp_pkey_st;

/* There is one at a time. What it makes is as long as a signature and worth nothing. Owner: the caller (EVP_PKEY_free()). */
struct evp_pkey_st *stuck_key_new(void);
/* Waits until a thread has begun a signature (each counts once). */
void stuck_key_wait_begun(void);
/* Lets one signature go, begun or not; MADE false: it fails. */
void stuck_key_release(bool made);

#endif
