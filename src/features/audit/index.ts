import type { Db } from '../../platform/db/pool.ts';
import { bounded } from '../../platform/db/retention/retention-rule.ts';
import type { Logger } from '../../platform/logger.ts';
import { defineFeature, ONE_PER_ORGANIZATION } from '../feature.ts';
import { auditRoutes } from './audit.routes.ts';
import { NameIndexCompactor } from './name-index/name-index-compactor.ts';
import { createEntryArchive } from './retention/archive.ts';
import { AuditPruner } from './retention/audit-pruner.ts';
import type { SigningKeys as Keys } from './storage/signing-keys.ts';

export { createEntryArchive } from './retention/archive.ts';
export { createAuditTrail } from './recording/audit-trail.ts';
export { NameIndexCompactor } from './name-index/name-index-compactor.ts';
export { AuditPruner } from './retention/audit-pruner.ts';
export { RepeatedReads } from './recording/repeated-reads.ts';
export { AuditSealer } from './sealing/sealer.ts';
export { SEALED_SIGNING_KEY, SigningKeys } from './storage/signing-keys.ts';

interface WorkerParts {
  db: Db;
  auditKeys: Keys;
  /** Of the role that may remove entries; without it they stay. */
  auditAdminUrl: string | undefined;
  /** Where entries are copied to before they are removed. */
  auditArchive: Parameters<typeof createEntryArchive>[2] | undefined;
  log: Logger;
}

export const feature = defineFeature({
  name: 'audit',
  routes: (parts: Parameters<typeof auditRoutes>[0]) => [auditRoutes(parts)],
  workers: ({ db, auditKeys: keys, auditAdminUrl: adminUrl, auditArchive, log }: WorkerParts) => {
    const compactor = new NameIndexCompactor({ db, log });
    const archive = auditArchive === undefined ? undefined : createEntryArchive(db, keys, auditArchive);
    return {
      'name index compaction': compactor,
      'audit pruning': new AuditPruner({ db, adminUrl, keys, archive, compactor, log }),
    };
  },
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
