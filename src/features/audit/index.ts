import { bounded } from '../../platform/db/retention/retention-rule.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { auditRoutes } from './audit.routes.ts';
import { addAuditJobs } from './retention/audit-jobs.ts';

export { auditKeysLimit } from './audit.routes.ts';
export { createEntryArchive } from './retention/archive.ts';
export { createAuditTrail } from './recording/audit-trail.ts';
export { NameIndexCompactor } from './name-index/name-index-compactor.ts';
export { AuditPruner } from './retention/audit-pruner.ts';
export { RepeatedReads } from './recording/repeated-reads.ts';
export { AuditSealer } from './sealing/sealer.ts';
export { lastOperatorEntry } from './reading/last-operator-entry.ts';
export { auditState } from './verification/audit-state.ts';
export { lastVerifications, verificationDetails, VERIFY_ACTION } from './verification/last-verifications.ts';
export { createChainVerifier } from './verification/verify.service.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './storage/signing-keys.ts';

export const feature = defineFeature({
  name: 'audit',
  routes: (parts: Parameters<typeof auditRoutes>[0]) => [auditRoutes(parts)],
  jobs: addAuditJobs,
  tables: [
    { table: 'audit_logs', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_actors', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_resources', ends: 'retention', worker: 'AuditPruner' },
    { table: 'audit_name_sheets', ends: 'retention', worker: 'AuditPruner' },
    bounded('audit_outbox', 'the sealer empties it within a second'),
    bounded('audit_chain_heads', 'a chain has one row'),
    bounded(
      'audit_checkpoints',
      'there is one for each thousand entries or ten minutes, kept because it is the proof',
    ),
    bounded('audit_signing_keys', 'an operator creates them by hand'),
    bounded('audit_retention_policies', ONE_PER_ORGANIZATION),
  ],
});
