import type { AuditNote } from '../../../platform/http/route.ts';
import type { Target } from './platform.ts';
import type { Promotion } from './promotion.ts';
import type { Registration, ReleaseName } from './registration.ts';

/** What the audit trail says of releases, be it done by a route or by the command line. */

type Published = ReleaseName & { id: string; sha256: string };

export const releaseNote = ({ id, version, ...release }: Published): AuditNote => ({
  resourceId: id,
  resourceName: version,
  details: { ...platformOf(release), sha256: release.sha256 },
});

export function publishNote(release: Published, { promotion }: Pick<Registration, 'promotion'>): AuditNote {
  const note = releaseNote(release);
  return { ...note, details: { ...note.details, ...promotion } };
}

export const promoteNote = (version: string, promotion: Promotion): AuditNote => ({
  resourceName: version,
  details: { ...promotion },
});

const platformOf = ({ component, os, architecture }: Target) => ({ component, os, architecture });
