import { Checkbox, NumberInput, Radio, Stack } from '@mantine/core';
import type { VmEstimate } from '../../../api/index.ts';
import type { DiskFormat, MachineWish, WishProps } from './machine-wish.ts';

const GIB = 2 ** 30;

/** The size that the first disk has, rounded up. */
const leastGb = ({ disks }: VmEstimate): number => Math.ceil((disks[0]?.sizeBytes ?? 0) / GIB);

/** Why the first disk cannot have the size that was typed. The server judges by itself. */
export function faultOfSize({ diskSizeGb }: MachineWish, estimate: VmEstimate): string | undefined {
  return typeof diskSizeGb === 'number' && diskSizeGb < leastGb(estimate)
    ? `The first disk needs at least ${leastGb(estimate)} GiB.`
    : undefined;
}

/** How large the first disk becomes, and whether what is on it grows too. */
export function SizeFields({ wish, set, faults, estimate }: WishProps & { estimate: VmEstimate }) {
  const isSized = typeof wish.diskSizeGb === 'number';
  return (
    <>
      <NumberInput
        label="Size of the first disk in GiB"
        description={`Empty: as before. The disk can only become larger than ${leastGb(estimate)} GiB.`}
        allowDecimal={false}
        value={wish.diskSizeGb}
        onChange={(diskSizeGb) => set({ diskSizeGb })}
        error={faultOfSize(wish, estimate) ?? faults['vmSpecs.diskSizeGb']}
      />
      <Checkbox
        label="Use all of the larger disk"
        description={
          isSized
            ? 'The last partition then reaches its end, and a file system of ext2, ext3 or ext4 in it too.'
            : 'Name a size first.'
        }
        disabled={!isSized}
        checked={isSized && wish.grow}
        onChange={(event) => set({ grow: event.currentTarget.checked })}
        error={faults['grow']}
      />
    </>
  );
}

const FORMATS: readonly { value: DiskFormat; label: string; description: string }[] = [
  { value: 'qcow2', label: 'qcow2', description: 'For KVM. It takes the space that is in use.' },
  { value: 'raw', label: 'raw', description: 'The bytes of the disk, for every hypervisor.' },
  {
    value: 'vhdx',
    label: 'vhdx',
    description: 'Files for Hyper-V, which you take from the folder. No machine is made of them here.',
  },
];

export function FormatField({ wish, set, faults }: WishProps) {
  return (
    <Radio.Group
      label="Kind of the disks"
      value={wish.format}
      onChange={(value) =>
        set({ format: FORMATS.find((format) => format.value === value)?.value ?? 'qcow2' })
      }
      error={faults['format']}
    >
      <Stack gap="xs" mt="xs">
        {FORMATS.map((format) => (
          <Radio key={format.value} {...format} />
        ))}
      </Stack>
    </Radio.Group>
  );
}
