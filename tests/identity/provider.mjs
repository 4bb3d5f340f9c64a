// An OpenID Connect provider with one client, which gets tokens for `turnwire` by its secret.
// Arguments: the port, the ID of the signing key, and its algorithm.
import { generateKeyPairSync } from "node:crypto";
import { Provider } from "oidc-provider";

const [port, kid, alg] = [Number(process.argv[2]), process.argv[3], process.argv[4]];
const pair = alg === "RS256"
  ? generateKeyPairSync("rsa", { modulusLength: 2048 })
  : generateKeyPairSync("ec", { namedCurve: "P-256" });
const key = { ...pair.privateKey.export({ format: "jwk" }), kid, alg, use: "sig" };
const provider = new Provider(`http://127.0.0.1:${port}`, {
  jwks: { keys: [key] },
  clients: [{
    client_id: "agent",
    client_secret: "a-secret-of-the-tests",
    grant_types: ["client_credentials"],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: alg,
  }],
  scopes: ["runs:read", "runs:write"],
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => "urn:turnwire",
      getResourceServerInfo: () => ({
        scope: "runs:read runs:write",
        audience: "turnwire",
        accessTokenFormat: "jwt",
        jwt: { sign: { alg } },
      }),
    },
  },
  extraTokenClaims: () => ({ org: "acme" }),
});
provider.listen(port, "127.0.0.1", () => console.log("ready"));
