import { z } from 'zod';
import { everyScope, peopleOfEveryScope } from '../../platform/http/authentication.ts';
import { IdParams } from '../../platform/http/fields.ts';
import { pageOf } from '../../platform/http/pagination.ts';
import { route, type RouteGroup } from '../../platform/http/route.ts';
import { RecoveryAccess, RecoveryEnd, RecoveryReport, RecoveryStart } from '../../protocol/index.ts';
import {
  CREATES_TOKENS,
  createToken,
  listTokens,
  readToken,
  revokeToken,
  type BareMetalParts,
  completeRecovery,
  reportRecovery,
  startRecovery,
} from './bare-metal.service.ts';
import {
  CreatedRecoveryToken,
  NewRecoveryToken,
  RecoveryTokenQuery,
  ShownRecoveryToken,
} from './bare-metal.schema.ts';
import type { BareMetalToken } from './machine-recovery.model.ts';

const about = ({ id, orgId, deviceId, snapshotId, restoreType }: NotedToken) => ({
  orgId,
  resourceId: id,
  details: { deviceId, snapshotId, restoreType },
});

type NotedToken = Pick<BareMetalToken, 'id' | 'orgId' | 'deviceId' | 'snapshotId' | 'restoreType'>;

const BY_MACHINE =
  'Called by `muster-agent recover`, with the token in the body and nothing else that proves who it is.';
const Done = z.object({ success: z.literal(true) });
const done = { success: true as const };

export const bareMetalRoutes = (parts: BareMetalParts & { baseUrl: () => string }): RouteGroup => ({
  name: 'Bare-metal recovery',
  description: 'Machines without an agent, or without anything, that are restored from an image.',
  routes: [
    route({
      method: 'post',
      path: '/backup/bmr/token',
      summary: 'Create a token that restores one image',
      description:
        'The token is answered once. The person who has it reads the whole image, and the password of the repository that the image is in, so a second factor is required.',
      access: { ...peopleOfEveryScope(CREATES_TOKENS), mfa: true },
      body: NewRecoveryToken,
      response: CreatedRecoveryToken,
      status: 201,
      errors: ['not_found', 'conflict'],
      handler: ({ ctx, body }) => createToken(ctx, body, parts.baseUrl),
      audit: { action: 'backup.bmr.token.create', resource: 'backup_recovery_token', note: about },
    }),
    route({
      method: 'get',
      path: '/backup/bmr/token',
      summary: 'List recovery tokens, the newest first',
      access: everyScope('recovery:read'),
      query: RecoveryTokenQuery,
      response: pageOf(ShownRecoveryToken),
      handler: ({ ctx, query }) => listTokens(ctx, query),
    }),
    route({
      method: 'get',
      path: '/backup/bmr/token/:id',
      summary: 'Read a recovery token, and how far its recovery is',
      access: everyScope('recovery:read'),
      params: IdParams,
      response: ShownRecoveryToken,
      handler: ({ ctx, params }) => readToken(ctx, params.id),
    }),
    route({
      method: 'delete',
      path: '/backup/bmr/token/:id',
      summary: 'Revoke a recovery token',
      description: 'A recovery that is going on is cut off.',
      access: everyScope('recovery:execute'),
      params: IdParams,
      response: ShownRecoveryToken,
      errors: ['conflict'],
      handler: ({ ctx, params }) => revokeToken(ctx, params.id),
      audit: { action: 'backup.bmr.token.revoke', resource: 'backup_recovery_token', note: about },
    }),
    route({
      method: 'post',
      path: '/backup/bmr/authenticate',
      summary: 'Begin a recovery with its token, or go on with it',
      description: `${BY_MACHINE} The first start is answered a session, which every other call needs; a second start without it is refused. Ten starts an hour.`,
      access: 'public',
      unaudited: 'writes backup.bmr.authenticate itself: the caller is not known before',
      body: RecoveryStart,
      response: RecoveryAccess,
      errors: ['unauthenticated', 'tenant_inactive', 'conflict', 'rate_limited', 'not_found'],
      handler: ({ ctx, body }) => startRecovery(ctx, body, parts),
    }),
    route({
      method: 'post',
      path: '/backup/bmr/progress',
      summary: 'Report how far a recovery is',
      description: BY_MACHINE,
      access: 'public',
      unaudited: 'how far something is, is no action',
      body: RecoveryReport,
      response: Done,
      errors: ['unauthenticated', 'rate_limited'],
      handler: async ({ ctx, body }) => {
        await reportRecovery(ctx, body, parts);
        return done;
      },
    }),
    route({
      method: 'post',
      path: '/backup/bmr/complete',
      summary: 'Report how a recovery has ended',
      description: `${BY_MACHINE} The token is used up then, unless the recovery has failed.`,
      access: 'public',
      unaudited: 'writes backup.bmr.complete itself',
      body: RecoveryEnd,
      response: Done,
      errors: ['unauthenticated', 'rate_limited'],
      handler: async ({ ctx, body }) => {
        await completeRecovery(ctx, body, parts);
        return done;
      },
    }),
  ],
});
