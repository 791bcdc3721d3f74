import { bounded } from '../../platform/db/retention-rule.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { auditRoutes } from './audit.routes.ts';
import { addAuditJobs } from './audit.work.ts';

export { auditKeysLimit } from './audit.routes.ts';
export { createEntryArchive } from './audit.work.ts';
export { createAuditTrail, RepeatedReads } from './audit-trail.ts';
export { NameIndexCompactor } from './name-index.ts';
export { AuditPruner } from './audit-pruner.ts';
export { ChainWriter } from './chain-writer.ts';
export { changeTimeline, lastOperatorEntry } from './audit.queries.ts';
export {
  auditState,
  lastVerifications,
  verificationDetails,
  createChainVerifier,
} from './verification.service.ts';
export { VERIFY_ACTION } from './verification.queries.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './signing-keys.ts';

export const feature = defineFeature({
  name: 'audit',
  routes: (parts: Parameters<typeof auditRoutes>[0]) => [auditRoutes(parts)],
  jobs: addAuditJobs,
  tables: [
    { table: 'audit_logs', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_actors', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_resources', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_name_sheets', ends: 'retention', worker: 'AuditPruner' },
    bounded('audit_outbox', 'the chain writer empties it within a second'),
    bounded('audit_chain_heads', 'a chain has one row'),
    bounded(
      'audit_checkpoints',
      'there is one for each thousand entries or ten minutes, kept because it is the proof',
    ),
    bounded('audit_signing_keys', 'an operator creates them by hand'),
    bounded('audit_retention_policies', ONE_PER_ORGANIZATION),
  ],
});
