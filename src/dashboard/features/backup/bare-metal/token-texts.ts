import type { RecoveryToken } from '../../../api/index.ts';
import { formatCounted } from '../../../ui/index.ts';
import type { Tone } from '../../../ui/index.ts';

type Status = RecoveryToken['status'];

export const STATES: Readonly<Record<Status, { tone: Tone; label: string }>> = {
  active: { tone: 'info', label: 'Active' },
  authenticated: { tone: 'busy', label: 'In use' },
  used: { tone: 'neutral', label: 'Used' },
  expired: { tone: 'neutral', label: 'Expired' },
  revoked: { tone: 'neutral', label: 'Revoked' },
};

const NOTES: Readonly<Record<Status, string>> = {
  active: 'Nobody has used it yet. The first machine that does is the only one that can go on with it.',
  authenticated: 'A machine has begun with it. If that is not yours, revoke it: it is cut off at once.',
  used: 'The recovery has ended, and the token opens nothing any more.',
  expired: 'It has expired, and opens nothing any more.',
  revoked: 'It was revoked, and opens nothing any more.',
};

export const noteOf = ({ status, result }: RecoveryToken): string =>
  status === 'authenticated' && result?.status === 'failed'
    ? 'The last attempt has failed. The same machine can begin again, with a larger disk for example.'
    : NOTES[status];

/** Whether the token still opens something. */
export const isOpen = ({ status }: RecoveryToken): boolean =>
  status === 'active' || status === 'authenticated';

type Session = RecoveryToken['sessionStatus'];

export const SESSIONS: Readonly<Record<Session, { tone: Tone; label: string }>> = {
  pending: { tone: 'neutral', label: 'Not begun' },
  running: { tone: 'busy', label: 'Running' },
  completed: { tone: 'good', label: 'Completed' },
  partial: { tone: 'warning', label: 'Partial' },
  failed: { tone: 'bad', label: 'Failed' },
};

export const disksText = ({ targetConfig: { disks } }: RecoveryToken): string =>
  disks === undefined ? 'All disks' : `${formatCounted(disks.length, 'disk')}: ${disks.join(', ')}`;
