import type { LinkProps } from '@tanstack/react-router';
import { formatWord } from '../../ui/index.ts';

/** What long work is called, and the page on which it is opened. Commands and unknown kinds have neither. */
interface JobKind {
  name: string;
  page?: (id: string) => Pick<LinkProps, 'to' | 'search'>;
}

const KINDS: Readonly<Record<string, JobKind>> = {
  backup: { name: 'Backup', page: (job) => ({ to: '/backup/jobs', search: { job } }) },
  restore: { name: 'Restore', page: (restore) => ({ to: '/backup/restores', search: { restore } }) },
  vm_restore: {
    name: 'Machine of a snapshot',
    page: (machine) => ({ to: '/backup/restores', search: { view: 'machines', machine } }),
  },
  recovery: {
    name: 'Bare-metal recovery',
    page: (recovery) => ({ to: '/backup/bare-metal', search: { recovery } }),
  },
  vault_sync: { name: 'Copy to a vault' },
};

export const jobKind = (kind: string): JobKind => KINDS[kind] ?? { name: formatWord(kind) };
