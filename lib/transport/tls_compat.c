#include "transport/tls_compat.h"

#include <openssl/base.h>
#include <openssl/ssl.h>

#include "transport/tls.h"

/* The hybrid group first where the library knows it: recorded traffic stays closed to a later quantum computer. */
#if defined(SSL_GROUP_X25519_MLKEM768)
const char wr_tls_groups[] = "X25519MLKEM768:X25519:P-256";
#else
const char wr_tls_groups[] = "X25519:P-256";
#endif

#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)

const char *wr_tls_library_version(void)
{
    return "BoringSSL, API version " TEXT_OF(BORINGSSL_API_VERSION);
}
