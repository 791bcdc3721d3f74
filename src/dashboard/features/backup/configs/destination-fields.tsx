import { PasswordInput, TextInput } from '@mantine/core';
import type { PartProps } from './config-form.ts';

const FIELDS = [
  { name: 'bucket', label: 'Bucket', required: true },
  { name: 'region', label: 'Region', required: false },
  { name: 'endpoint', label: 'Address of the service (of another service than Amazon’s)', required: false },
  { name: 'prefix', label: 'Folder in the bucket', required: false },
  { name: 'accessKey', label: 'Access key', required: true },
] as const;

export function DestinationFields({ form, set, faults, hasSecret }: PartProps & { hasSecret: boolean }) {
  if (form.provider === 'server') return null;
  if (form.provider === 'local') {
    return (
      <TextInput
        label="Folder, as the device sees it"
        description="Each device has a folder of its own in it."
        required
        value={form.path}
        onChange={(event) => set({ path: event.currentTarget.value })}
        error={faults['details.path']}
      />
    );
  }
  return (
    <>
      {FIELDS.map(({ name, label, required }) => (
        <TextInput
          key={name}
          label={label}
          required={required}
          value={form[name]}
          onChange={(event) => set({ [name]: event.currentTarget.value })}
          error={faults[`details.${name}`]}
        />
      ))}
      <PasswordInput
        label="Secret key"
        required={!hasSecret}
        {...(hasSecret ? { description: 'Empty: the stored one stays.' } : {})}
        autoComplete="off"
        value={form.secretKey}
        onChange={(event) => set({ secretKey: event.currentTarget.value })}
        error={faults['details.secretKey']}
      />
    </>
  );
}
