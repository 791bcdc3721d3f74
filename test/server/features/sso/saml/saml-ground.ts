import { inflateRawSync } from 'node:zlib';
import { createSamlProtocol } from '../../../../../src/features/sso/saml.ts';
import { SsoProvider } from '../../../../../src/features/sso/sso.model.ts';
import type { AssertedIdentity } from '../../../../../src/features/sso/sso-protocol.ts';
import { SsoFailure, type SsoFailureReason } from '../../../../../src/features/sso/sso-failure.ts';
import type { PublicContext } from '../../../../../src/platform/context.ts';
import { withSystem } from '../../../../../src/platform/db/transaction.ts';
import { newId } from '../../../../../src/platform/ids.ts';
import { buildTenant } from '../../../../support/factories.ts';
import { quietLog } from '../../../../support/quiet-log.ts';
import { samlFile } from '../../../../support/saml-certificates.ts';
import type { Asked } from '../../../../support/saml-forge.ts';
import type { TestApp } from '../../../../support/test-app.ts';

const BASE = 'https://rmm.example.com/api/v1/sso/saml';
const SERVICE = { entityId: `${BASE}/metadata`, acsUrl: `${BASE}/acs` };
const IDP = 'https://idp.example.com/metadata';

/** The protocol on a real database, without routes: a provider, and sign-ins with it. */
export interface SamlGround {
  begin(row?: Partial<SsoProvider>): Promise<SignIn>;
}

export interface SignIn {
  asked: Asked;
  /** Where the browser was sent. */
  url: URL;
  /** The AuthnRequest in it. */
  request: string;
  provider: SsoProvider;
  finish(samlResponse: string | null): Promise<AssertedIdentity>;
  /** Why it failed; `undefined` where the person is signed in. */
  refusal(samlResponse: string | null): Promise<SsoFailureReason | undefined>;
}

export async function createSamlGround(app: TestApp): Promise<SamlGround> {
  const { orgId } = await buildTenant(app);
  const protocol = createSamlProtocol({
    fetch: { assertPermitted: async () => {} },
    entityId: () => SERVICE.entityId,
    acsUrl: () => SERVICE.acsUrl,
  });
  const ctx: PublicContext = {
    requestId: newId(),
    log: quietLog,
    client: { ip: '127.0.0.1', trusted: false, userAgent: null },
    arrivedAt: performance.now(),
    withSystem: (why, work) => withSystem(app.server.database.pool, why, work),
  };
  return {
    async begin(row = {}) {
      const provider = await ctx.withSystem('test data', (tx) =>
        SsoProvider.query(tx).insertAndFetch({
          orgId,
          name: 'Company',
          type: 'saml',
          status: 'active',
          entityId: IDP,
          ssoUrl: 'https://idp.example.com/sso?tenant=1',
          certificate: samlFile('signing.pem'),
          attributeMapping: { email: 'email', name: 'name' },
          ...row,
        }),
      );
      const started = await protocol.begin(provider, 'state-of-the-test');
      const url = new URL(started.url);
      const deflated = Buffer.from(url.searchParams.get('SAMLRequest') ?? '', 'base64');
      const finish: SignIn['finish'] = (samlResponse) =>
        protocol.finish(
          ctx,
          provider,
          { state: 'state-of-the-test', nonce: started.nonce, codeVerifier: null, samlResponse },
          {},
        );
      return {
        asked: {
          requestId: started.nonce,
          acsUrl: SERVICE.acsUrl,
          audience: SERVICE.entityId,
          issuer: IDP,
        },
        url,
        request: inflateRawSync(deflated).toString(),
        provider,
        finish,
        refusal: (samlResponse) => finish(samlResponse).then(() => undefined, reasonOf),
      };
    },
  };
}

function reasonOf(error: unknown): SsoFailureReason {
  if (error instanceof SsoFailure) return error.reason;
  throw error;
}
