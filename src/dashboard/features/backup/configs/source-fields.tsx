import { Stack, Textarea } from '@mantine/core';
import type { PartProps } from './config-form.ts';

const SYSTEMS = [
  { name: 'linux', label: 'Paths on Linux' },
  { name: 'macos', label: 'Paths on macOS' },
  { name: 'windows', label: 'Paths on Windows' },
] as const;

export function SourceFields({ form, set, faults }: PartProps) {
  const faultOf = (name: string) =>
    Object.entries(faults).find(([path]) => path === name || path.startsWith(`${name}.`))?.[1];
  return (
    <Stack gap="sm">
      {SYSTEMS.map(({ name, label }) => (
        <Textarea
          key={name}
          label={label}
          description="One a line. Empty: nothing of such devices."
          autosize
          minRows={2}
          value={form[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
          error={faultOf(`sources.paths.${name}`)}
        />
      ))}
      <Textarea
        label="Left out"
        description="Patterns of files and folders, one a line, such as *.tmp or /var/cache."
        autosize
        minRows={2}
        value={form.excludes}
        onChange={(event) => set({ excludes: event.currentTarget.value })}
        error={faultOf('sources.excludes')}
      />
    </Stack>
  );
}
