import { StateBadge, type Tone } from '../../../ui/index.ts';
import type { DetailsOf } from './content-text.ts';

type Value = DetailsOf<'image'>['consistency'];

const VALUES: Readonly<Record<Value, { tone: Tone; label: string; title: string }>> = {
  application: {
    tone: 'good',
    label: 'Of the applications',
    title: 'The programs had written what they held.',
  },
  filesystem: { tone: 'good', label: 'Of the file systems', title: 'The file systems were whole.' },
  crash: {
    tone: 'info',
    label: 'As after a power cut',
    title: 'What programs had not written yet is missing.',
  },
  none: {
    tone: 'warning',
    label: 'None',
    title: 'The machine went on writing: what changed meanwhile can be damaged.',
  },
};

/** In which state the disks were when they were read. */
export const ConsistencyBadge = ({ value }: { value: Value }) => <StateBadge {...VALUES[value]} />;

const BOOT_MODES = { bios: 'BIOS', uefi: 'UEFI' };

export const bootModeText = (mode: keyof typeof BOOT_MODES | null): string =>
  mode === null ? 'Not known, or both' : BOOT_MODES[mode];
