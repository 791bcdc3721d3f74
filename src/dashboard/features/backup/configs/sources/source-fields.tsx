import { Radio, Stack } from '@mantine/core';
import type { FC } from 'react';
import { DatabaseFields } from './database-fields.tsx';
import { DiskFields } from './disk-fields.tsx';
import { FileFields } from './file-fields.tsx';
import { MachineFields } from './machine-fields.tsx';
import { SqlServerFields } from './sql-server-fields.tsx';
import type { SourceFieldProps, Sources } from './source-form.ts';
import { KIND_NAMES } from './source-kinds.ts';

interface Kind {
  value: Sources['kind'];
  description: string;
  Fields: FC<SourceFieldProps>;
}

const KINDS: readonly Kind[] = [
  { value: 'files', description: 'Folders of the devices, file by file.', Fields: FileFields },
  {
    value: 'image',
    description: 'The machine as a whole, to start it again on other hardware. Of devices with Linux.',
    Fields: DiskFields,
  },
  {
    value: 'database',
    description: 'The server of a database, as its own programs back it up. Of devices with Linux.',
    Fields: DatabaseFields,
  },
  {
    value: 'mssql',
    description:
      'One database of SQL Server: full backups, and logs or differential ones between them. Of devices with Windows.',
    Fields: SqlServerFields,
  },
  {
    value: 'hyperv',
    description: 'Virtual machines with their disks. Of devices that are hosts of Hyper-V.',
    Fields: MachineFields,
  },
  {
    value: 'kvm',
    description: 'Virtual machines with their disks. Of devices with Linux that are hosts of libvirt.',
    Fields: MachineFields,
  },
];

/** What is backed up. The fields of a kind that is not chosen keep what was typed. */
export function SourceFields(props: Omit<SourceFieldProps, 'faultOf'>) {
  const { form, set, faults } = props;
  const faultOf = (name: string) =>
    Object.entries(faults).find(
      ([path]) => path === `sources.${name}` || path.startsWith(`sources.${name}.`),
    )?.[1];
  const chosen = KINDS.find(({ value }) => value === form.kind);
  return (
    <Stack gap="sm">
      <Radio.Group
        label="What is backed up"
        value={form.kind}
        onChange={(value) => set({ kind: KINDS.find((kind) => kind.value === value)?.value ?? form.kind })}
        error={faults['sources'] ?? faults['sources.kind']}
      >
        <Stack gap="xs" mt="xs">
          {KINDS.map(({ value, description }) => (
            <Radio key={value} value={value} label={KIND_NAMES[value]} description={description} />
          ))}
        </Stack>
      </Radio.Group>
      {chosen !== undefined && <chosen.Fields {...props} faultOf={faultOf} />}
    </Stack>
  );
}
