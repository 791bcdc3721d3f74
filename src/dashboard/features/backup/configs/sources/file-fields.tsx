import { Checkbox, Textarea } from '@mantine/core';
import type { SourceFieldProps } from './source-form.ts';

const SYSTEMS = [
  { name: 'linux', label: 'Paths on Linux' },
  { name: 'macos', label: 'Paths on macOS' },
  { name: 'windows', label: 'Paths on Windows' },
] as const;

export function FileFields({ form, set, faults, faultOf }: SourceFieldProps) {
  return (
    <>
      {SYSTEMS.map(({ name, label }) => (
        <Textarea
          key={name}
          label={label}
          description="One a line. Empty: nothing of such devices."
          autosize
          minRows={2}
          value={form[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
          // That no system has a path is said at the first one.
          error={faultOf(`paths.${name}`) ?? (name === 'linux' ? faults['sources.paths'] : undefined)}
        />
      ))}
      <Textarea
        label="Left out"
        description="Patterns of files and folders, one a line, such as *.tmp or /var/cache."
        autosize
        minRows={2}
        value={form.excludes}
        onChange={(event) => set({ excludes: event.currentTarget.value })}
        error={faultOf('excludes')}
      />
      <Checkbox
        label="Stay on one file system"
        description="File systems that are mounted below a path are left out."
        checked={form.oneFileSystem}
        onChange={(event) => set({ oneFileSystem: event.currentTarget.checked })}
        error={faultOf('oneFileSystem')}
      />
    </>
  );
}
