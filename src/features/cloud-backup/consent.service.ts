import { createHash, randomBytes } from 'node:crypto';
import { decodeJwt } from 'jose';
import { z } from 'zod';
import { clock } from '../../clock.ts';
import { type Caller, type Context, holds, type PublicContext } from '../../platform/context.ts';
import type { Db } from '../../platform/db/pool.ts';
import type { Tx } from '../../platform/db/transaction.ts';
import { AppError } from '../../platform/errors.ts';
import type { AuditTrail } from '../../platform/http/audit.ts';
import { Redirect } from '../../platform/http/file-answer.ts';
import type { Reply } from '../../platform/http/route.ts';
import { newId } from '../../platform/ids.ts';
import { OutboundError } from '../../platform/outbound/outbound-error.ts';
import { assertAddressAllowed, findCaller, lockOpenSession } from '../auth/index.ts';
import { assertManageable, assertOrganizationAccess } from '../organizations/index.ts';
import { DASHBOARD_PAGES } from '../dashboard-pages.ts';
import { GraphError, Postponed } from './graph-client.ts';
import { updateReadiness } from './readiness.ts';
import { insertConsent, openConsent } from './cloud-backup.queries.ts';
import { CloudConnection } from './cloud-backup.model.ts';
import { assertBelowLimit, type CloudParts, openGraph } from './connection.service.ts';
import type { ConsentQuery } from './connection.schema.ts';
import type { Mac } from '../../platform/secrets/tokens.ts';

const NAME = 'svc_c2c_state';
const PATH = '/api/v1/c2c/m365/callback';
const CONSENT_MINUTES = 15;

type ConsentCookie = ReturnType<typeof consentCookie>;

/** Binds a consent to the browser that began it, like the cookie of single sign-on. */
export function consentCookie({ mac, secureCookies }: { mac: Mac; secureCookies: boolean }) {
  const write = (reply: Reply, value: string, minutes: number) =>
    reply.cookie(NAME, value, {
      path: PATH,
      maxAgeMs: minutes * 60_000,
      secure: secureCookies,
      sameSite: 'lax',
    });
  return {
    set: (reply: Reply, state: string) => write(reply, mac.sign(state), CONSENT_MINUTES),
    clear: (reply: Reply) => write(reply, '', 0),
    isFrom: (cookies: Readonly<Record<string, string | undefined>>, state: string) =>
      mac.isSignatureOf(state, cookies[NAME] ?? ''),
  };
}

/**
 * An administrator gives the app of this server access to a directory (docs/decisions/cloud-backup.md). The callback
 * URL of the consent is no proof, because anyone can write another directory into it. So the same browser then signs
 * in, and the token that Microsoft sends directly to this server names the directory and the user, who must be an
 * administrator there.
 */

export interface ConsentParts {
  cloud: CloudParts;
  db: Db;
  audit: AuditTrail;
  consentCookie: ConsentCookie;
  baseUrl: () => string;
}

const callbackUrl = ({ baseUrl }: ConsentParts) => `${baseUrl()}/api/v1/c2c/m365/callback`;
const hashOf = (text: string) => createHash('sha256').update(text).digest('hex');
const random = () => randomBytes(32).toString('base64url');

export async function beginConsent(
  { ctx, reply }: { ctx: Context; reply: Reply },
  { orgId, displayName = 'Microsoft 365' }: ConsentQuery,
  parts: ConsentParts,
): Promise<{ url: string }> {
  await assertOrganizationAccess(ctx, orgId);
  await assertManageable(ctx, orgId);
  const { platformApp, loginUrl, graphUrl } = parts.cloud.cloudBackup;
  if (platformApp === undefined) {
    throw new AppError(
      'conflict',
      'This server has no app at Microsoft. Create a connection with an app of your own.',
    );
  }
  if (ctx.caller.sessionId === null) throw new AppError('forbidden', 'Only a person can consent.');
  const state = random();
  await insertConsent(
    ctx.tx,
    {
      id: newId(),
      org_id: orgId,
      session_id: ctx.caller.sessionId,
      display_name: displayName,
      state_hash: hashOf(state),
      nonce: random(),
      code_verifier: random(),
    },
    CONSENT_MINUTES,
  );
  parts.consentCookie.set(reply, state);
  const query = new URLSearchParams({
    client_id: platformApp.clientId,
    scope: `${new URL(graphUrl).origin}/.default`,
    redirect_uri: callbackUrl(parts),
    state,
  });
  return { url: `${loginUrl}/organizations/v2.0/adminconsent?${query.toString()}` };
}

interface Consent {
  id: string;
  org_id: string;
  session_id: string;
  display_name: string;
  nonce: string;
  code_verifier: string;
  claimed_tenant_id: string | null;
}

class ConsentFailure extends Error {}

interface CallbackInput {
  ctx: PublicContext;
  query: Readonly<Record<string, unknown>>;
  cookies: Readonly<Record<string, string | undefined>>;
  reply: Reply;
}

/** Always returns a redirect, because the client is a browser. */
export async function finishConsent(input: CallbackInput, parts: ConsentParts): Promise<Redirect> {
  const { ctx, query, cookies, reply } = input;
  const page = (outcome: Record<string, string>) =>
    new Redirect(
      `${parts.baseUrl()}${DASHBOARD_PAGES.cloudBackup}?${new URLSearchParams(outcome).toString()}`,
    );
  try {
    const { state } = query;
    // The cookie is checked first, so that no browser uses up the consent of another one.
    if (
      typeof state !== 'string' ||
      !/^[\w-]{20,64}$/.test(state) ||
      !parts.consentCookie.isFrom(cookies, state)
    ) {
      throw new ConsentFailure('state_unknown');
    }
    if (query['error'] !== undefined) {
      await takeConsent(ctx, state);
      throw new ConsentFailure('consent_refused');
    }
    if (query['code'] === undefined) return await askForSignIn(ctx, state, query['tenant'], parts);
    const consent = await takeConsent(ctx, state);
    parts.consentCookie.clear(reply);
    const tenantId = await provenTenant(consent, query['code'], parts);
    const connection = await connect(ctx, consent, tenantId, parts);
    parts.audit.committed();
    return page({ connected: connection.id });
  } catch (error) {
    const reason = reasonOf(error);
    if (reason === 'internal') ctx.log.error({ err: error, requestId: ctx.requestId }, 'c2c.callback_failed');
    else ctx.log.info({ requestId: ctx.requestId, reason, detail: String(error) }, 'c2c.consent_refused');
    return page({ c2c_error: reason });
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof ConsentFailure) return error.message;
  if (error instanceof OutboundError || error instanceof GraphError || error instanceof Postponed) {
    return 'provider_unreachable';
  }
  if (error instanceof AppError) return error.code === 'internal' ? 'internal' : error.code;
  return 'internal';
}

/** After the consent: the user signs in to the directory that the browser has named. */
async function askForSignIn(
  ctx: PublicContext,
  state: string,
  tenant: unknown,
  parts: ConsentParts,
): Promise<Redirect> {
  const claimed = z.uuid().toLowerCase().safeParse(tenant).data;
  if (claimed === undefined) throw new ConsentFailure('answer_invalid');
  const [consent] = await ctx.withSystem('note the directory of a consent', (tx) =>
    openConsent(tx, hashOf(state))
      .whereNull('claimed_tenant_id')
      .update({ claimed_tenant_id: claimed })
      .returning<Consent[]>('*'),
  );
  if (consent === undefined) throw new ConsentFailure('state_unknown');
  const { platformApp, loginUrl } = parts.cloud.cloudBackup;
  const query = new URLSearchParams({
    client_id: platformApp?.clientId ?? '',
    response_type: 'code',
    response_mode: 'query',
    scope: 'openid profile',
    redirect_uri: callbackUrl(parts),
    state,
    nonce: consent.nonce,
    code_challenge: createHash('sha256').update(consent.code_verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  return new Redirect(`${loginUrl}/${claimed}/oauth2/v2.0/authorize?${query.toString()}`);
}

/** Takes the consent that waits for a callback. Only one of several concurrent callbacks gets it. */
async function takeConsent(ctx: PublicContext, state: string): Promise<Consent> {
  const [consent] = await ctx.withSystem('use up a consent', (tx) =>
    openConsent(tx, hashOf(state)).delete().returning<Consent[]>('*'),
  );
  if (consent === undefined) throw new ConsentFailure('state_unknown');
  return consent;
}

const Exchanged = z.object({ id_token: z.string().max(16_000) });
const Claims = z.object({
  tid: z.uuid().toLowerCase(),
  oid: z.uuid(),
  nonce: z.string(),
  aud: z.string(),
  exp: z.number(),
});
const Roles = z.object({ value: z.array(z.object({ roleTemplateId: z.string().nullish() })) });

/** Global Administrator, Privileged Role Administrator, Application and Cloud Application Administrator. */
const ADMINISTRATORS: ReadonlySet<string> = new Set([
  '62e90394-69f5-4237-9190-012177145e10',
  'e8611ab8-c189-46e8-94e1-60213ab1f814',
  '9b895d92-2cd3-44c7-9d02-a6ac2d5ea5c3',
  '158c047a-c907-4556-b7ef-446551a6b5f7',
]);
const LIMIT_MS = 20_000;

/** The token comes directly from Microsoft over TLS, so its signature need not be checked (OpenID Connect 3.1.3.7). */
async function provenTenant(consent: Consent, code: unknown, parts: ConsentParts): Promise<string> {
  const { platformApp, loginUrl } = parts.cloud.cloudBackup;
  const claimed = consent.claimed_tenant_id;
  if (typeof code !== 'string' || code.length > 8000 || claimed === null || platformApp === undefined) {
    throw new ConsentFailure('answer_invalid');
  }
  const answer = await parts.cloud.cloudFetch.fetch(`${loginUrl}/${claimed}/oauth2/v2.0/token`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: platformApp.clientId,
      client_secret: platformApp.secret,
      code,
      redirect_uri: callbackUrl(parts),
      code_verifier: consent.code_verifier,
    }).toString(),
    accept: ['application/json'],
    maxBytes: 65_536,
  });
  const exchanged = Exchanged.safeParse(await answer.json().catch(() => undefined)).data;
  if (!answer.ok || exchanged === undefined) throw new ConsentFailure('code_refused');
  const claims = Claims.safeParse(claimsOf(exchanged.id_token)).data;
  const isOurs =
    claims?.nonce === consent.nonce && claims.aud === platformApp.clientId && claims.exp * 1000 > clock.now();
  if (claims === undefined || !isOurs || claims.tid !== claimed) throw new ConsentFailure('token_invalid');
  const candidate = CloudConnection.fromJson(
    {
      id: newId(),
      orgId: consent.org_id,
      authMethod: 'platform_app',
      tenantId: claimed,
      throttledUntil: null,
    },
    { skipValidation: true },
  );
  const graph = openGraph(parts.cloud, candidate, {
    db: parts.db,
    signal: clock.timeoutSignal(LIMIT_MS),
    patienceMs: 5000,
  });
  const roles = await graph.json(
    `/users/${claims.oid}/memberOf/microsoft.graph.directoryRole?$select=roleTemplateId`,
    Roles,
  );
  if (!roles.value.some(({ roleTemplateId }) => ADMINISTRATORS.has(roleTemplateId ?? ''))) {
    throw new ConsentFailure('administrator_required');
  }
  return claimed;
}

function claimsOf(token: string): unknown {
  try {
    return decodeJwt(token);
  } catch {
    return undefined;
  }
}

/** With the current rights of the user who began it. */
const connect = (ctx: PublicContext, consent: Consent, tenantId: string, { audit }: ConsentParts) =>
  ctx.withSystem('connect a directory that was proved', async (tx) => {
    const caller = await findCaller(tx, consent.session_id);
    if (caller === undefined) throw new ConsentFailure('session_expired');
    await lockOpenSession({ tx, caller });
    assertAddressAllowed(caller, ctx.client, ctx.log, 'request');
    const mayEnter =
      caller.scope === 'system' || caller.orgIds.includes(consent.org_id) || caller.orgAccess === 'all';
    if (!mayEnter || !holds(caller.permissions, 'backup:write')) throw new ConsentFailure('forbidden');
    const known = await connectedAgain(tx, consent.org_id, tenantId);
    if (known !== undefined) {
      await audit.record(tx, noteOf(known, 'c2c.connection.update', caller, ctx));
      return known;
    }
    await assertBelowLimit(tx, consent.org_id);
    const present = await CloudConnection.query(tx).where('org_id', consent.org_id).select('display_name');
    const names = new Set(present.map(({ displayName }) => displayName.toLowerCase()));
    const wanted = consent.display_name;
    const free = [wanted, `${wanted.slice(0, 190)} ${tenantId.slice(0, 8)}`, tenantId, newId()].find(
      (name) => !names.has(name.toLowerCase()),
    );
    const connection = await CloudConnection.query(tx).insertAndFetch({
      orgId: consent.org_id,
      provider: 'microsoft_365',
      authMethod: 'platform_app',
      displayName: free ?? wanted,
      tenantId,
      createdBy: caller.userId,
    });
    await audit.record(tx, noteOf(connection, 'c2c.connection.create', caller, ctx));
    return connection;
  });

/** Repeating a consent repairs the existing connection of the directory. */
async function connectedAgain(tx: Tx, orgId: string, tenantId: string): Promise<CloudConnection | undefined> {
  const [connection] = await CloudConnection.query(tx)
    .where({ org_id: orgId, tenant_id: tenantId, auth_method: 'platform_app' })
    .orderBy('id')
    .limit(1);
  if (connection === undefined) return undefined;
  const mended = await connection.$query(tx).patchAndFetch({ lastErrorCode: null, lastErrorMessage: null });
  await updateReadiness(tx, orgId);
  return mended;
}

const noteOf = (
  { id, orgId, displayName, tenantId }: CloudConnection,
  action: 'c2c.connection.create' | 'c2c.connection.update',
  actor: Caller,
  state: PublicContext,
) => ({
  action,
  resourceType: 'c2c_connection',
  resourceId: id,
  resourceName: displayName,
  orgId,
  details: { authMethod: 'platform_app', tenantId },
  actor,
  state,
});
