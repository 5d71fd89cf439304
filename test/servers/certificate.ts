/**
 * A certificate for 127.0.0.1 that signs itself, and its key, valid for a hundred years. It guards
 * nothing: tests put it between a client and a server on loopback.
 */
export const certificate = `-----BEGIN CERTIFICATE-----
MIIBmjCCAUGgAwIBAgIUAz1LzVa70kfF0SAMrx/6Gy1C088wCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEzMDA3MDI0MVoYDzIxMjYxMTA2
MDcwMjQxWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQe1cK9cq8pQb7EESZZf/3YD4KgW2dCy0S7uD4r7ySwkVRyeH7CEeOC
ifxaitCGz3qwPa5xIPLMq+wZH2XDfWTWo28wbTAdBgNVHQ4EFgQUG265LuSqOS3y
/g/fBS1FjZta43MwHwYDVR0jBBgwFoAUG265LuSqOS3y/g/fBS1FjZta43MwDwYD
VR0TAQH/BAUwAwEB/zAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3QwCgYIKoZI
zj0EAwIDRwAwRAIgUH30ngZLo/6lvSNA1/+vGXPaJyDzTu4v4IG6vK65XlwCICZL
ng0jl7RhBV4NphxaO2gI4rb79oGLctgqYrMs2o//
-----END CERTIFICATE-----
`;

/** The key of {@link certificate}. */
export const certificateKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgY0UnCncKuxo26/b4
x4sQWJhmSV0ApBMntcUObudqDzyhRANCAAQe1cK9cq8pQb7EESZZf/3YD4KgW2dC
y0S7uD4r7ySwkVRyeH7CEeOCifxaitCGz3qwPa5xIPLMq+wZH2XDfWTW
-----END PRIVATE KEY-----
`;
