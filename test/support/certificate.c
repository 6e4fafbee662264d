#include "support/certificate.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

void certificate_make_of(const char *kind, const char *dir, const char *prefix, const char *names)
{
    char command[2048];

    (void)snprintf(command, sizeof(command),
                   "openssl req -x509 -newkey %s -nodes -days 30 "
                   "-subj /CN=localhost -addext 'subjectAltName=%s' "
                   "-keyout '%s/%skey.pem' -out '%s/%scert.pem' >'%s/openssl.log' 2>&1",
                   kind, names, dir, prefix, dir, prefix, dir);
    cr_assert_eq(system(command), 0, "openssl could not make a certificate");
}

void certificate_make(const char *dir, const char *prefix, const char *names)
{
    certificate_make_of("ec -pkeyopt ec_paramgen_curve:P-256", dir, prefix, names);
}
