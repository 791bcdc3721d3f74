import type { Tx } from '../../../platform/db/transaction.ts';
import type { AuditTrail } from '../../../platform/http/audit.ts';
import type { AuditNote } from '../../../platform/http/route.ts';
import type { Logger } from '../../../platform/logger.ts';
import type { Target } from './platform.ts';
import type { Promotion } from './promotion.ts';
import type { Registration } from './registration.ts';
import type { ReleaseName } from './platform.ts';

/** What the audit trail says of releases, be it done by a route or by the command line. */

type Published = ReleaseName & { id: string; sha256: string };

export const releaseNote = ({ id, version, ...release }: Published): AuditNote => ({
  resourceId: id,
  resourceName: version,
  details: { ...platformOf(release), sha256: release.sha256 },
});

/** None where nothing was changed. */
export function publishNotes(
  release: Published,
  { change, promotion }: Pick<Registration, 'change' | 'promotion'>,
): (AuditNote & { action: string })[] {
  if (change === 'none') return [];
  if (change === 'signed') return [signNote(release)];
  const note = releaseNote(release);
  const details = { ...note.details, ...promotion };
  return [{ action: 'agent_version.publish', ...note, details }];
}

export const signNote = (release: Published) => ({ action: 'agent_version.sign', ...releaseNote(release) });

export const promoteNote = (version: string, promotion: Promotion): AuditNote => ({
  resourceName: version,
  details: { ...promotion, ...promotionChange(promotion) },
});

/** What devices upgraded to before a promotion, and what they upgrade to now, on the platforms that it concerns. */
export const promotionChange = ({ promoted, demoted }: Promotion) => ({
  before: { promoted: demoted },
  after: { promoted },
});

const platformOf = ({ component, os, architecture }: Target) => ({ component, os, architecture });

/** Records what the operator's command line or a job did: an act of the system, of no tenant. */
export const recordAsSystem = (
  tx: Tx,
  { audit, log }: { audit: Pick<AuditTrail, 'record'>; log: Logger },
  { action, resourceType = 'agent_version', ...note }: AuditNote & { action: string; resourceType?: string },
) =>
  audit.record(tx, {
    action,
    resourceType,
    ...note,
    actor: { kind: 'system', scope: 'system', orgId: null, partnerId: null },
    state: { client: { ip: null, userAgent: null }, log },
  });
