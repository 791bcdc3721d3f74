import { route, type AnyRoute } from '../../../platform/http/route.ts';
import { VERIFY_ACTION } from './last-verifications.ts';
import { ChainChoice, ChainReport } from './verify.schema.ts';
import type { VerifyChain } from './verify.service.ts';

export const verifyRoutes = ({ verifyChain }: { verifyChain: VerifyChain }): AnyRoute[] => [
  route({
    method: 'post',
    path: '/audit-logs/verify',
    summary: 'Verify an audit chain',
    description:
      'Compares every entry with its checksum, its predecessor and the signatures, and returns the first fault. Chains of more than 500,000 entries are refused with `CONFLICT`: the command `muster audit verify` verifies them. A server that was tampered with would vouch for itself, so an audit relies on the command or on an exported bundle.',
    access: { scopes: ['organization', 'partner', 'system'], permission: 'audit:read' },
    body: ChainChoice,
    response: ChainReport,
    errors: ['conflict', 'rate_limited'],
    prepare: ({ ctx, body }) => verifyChain(ctx, body),
    handler: ({ prepared }) => prepared,
    audit: {
      action: VERIFY_ACTION,
      resource: 'audit_logs',
      note: ({ orgId, entries, fault }) => ({ orgId, details: { entries, fault } }),
    },
  }),
];
