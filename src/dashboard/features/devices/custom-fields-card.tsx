import { NumberInput, Select, Stack, TagsInput, Text, TextInput } from '@mantine/core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type CustomField, type Device } from '../../api/index.ts';
import { Action, formatTime, Loaded, Modal } from '../../ui/index.ts';
import { DialogForm, REFRESHES } from './device-dialogs.tsx';
import { useDeviceRefusals } from './use-device.ts';
import { Card, Facts } from './tab-parts.tsx';

/** The custom fields of the organization for its devices. */
export function CustomFieldsCard({ device }: { device: Device }) {
  const [isOpen, setOpen] = useState(false);
  const refusals = useDeviceRefusals(device);
  const fields = useQuery(apiQuery('GET /custom-fields', { query: { orgId: device.orgId, limit: '100' } }));
  const hasFields = (fields.data?.data.length ?? 0) > 0;
  return (
    <Card
      title="Custom fields"
      action={
        hasFields && (
          <Action size="compact-xs" variant="default" refusal={refusals.write} onClick={() => setOpen(true)}>
            Edit
          </Action>
        )
      }
    >
      <Loaded query={fields} what="Reading the fields">
        {({ data }) =>
          data.length === 0 ? (
            <Text size="sm">The organization has defined no fields of its own.</Text>
          ) : (
            <>
              <Facts
                facts={data.map(({ key, name }) => [name, shown(device.customFields[key])] as const)}
                none="No field has a value on this device."
              />
              <Modal opened={isOpen} onClose={() => setOpen(false)} title="Custom fields" centered>
                <FieldsForm device={device} fields={data} onClose={() => setOpen(false)} />
              </Modal>
            </>
          )
        }
      </Loaded>
    </Card>
  );
}

function shown(value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined;
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (Array.isArray(value)) return value.map(String).join(', ');
  if (typeof value === 'string') {
    return /^\d{4}-\d\d-\d\dT/.test(value) ? formatTime(new Date(value)) : value;
  }
  return typeof value === 'number' ? value.toLocaleString() : JSON.stringify(value);
}

function FieldsForm({
  device,
  fields,
  onClose,
}: {
  device: Device;
  fields: readonly CustomField[];
  onClose: () => void;
}) {
  const [changed, setChanged] = useState<Readonly<Record<string, unknown>>>({});
  const change = useApiChange('PATCH /devices/{id}', { refreshes: REFRESHES });
  return (
    <DialogForm
      confirm="Save"
      isReady={Object.keys(changed).length > 0}
      onClose={onClose}
      run={() => change.mutateAsync({ params: { id: device.id }, body: { customFields: { ...changed } } })}
    >
      <Stack gap="xs">
        {fields.map((field) => (
          <FieldInput
            key={field.key}
            field={field}
            value={field.key in changed ? changed[field.key] : device.customFields[field.key]}
            onChange={(value) => setChanged((known) => ({ ...known, [field.key]: value }))}
          />
        ))}
      </Stack>
    </DialogForm>
  );
}

/** An empty field removes the value. */
function FieldInput({
  field: { name, type, description },
  value,
  onChange,
}: {
  field: CustomField;
  value: unknown;
  onChange: (value: unknown) => void;
}) {
  const common = { label: name, description };
  const text = typeof value === 'string' ? value : '';
  switch (type) {
    case 'number':
      return (
        <NumberInput
          {...common}
          value={typeof value === 'number' ? value : ''}
          onChange={(next) => onChange(typeof next === 'number' ? next : null)}
        />
      );
    case 'boolean':
      return (
        <Select
          {...common}
          data={[
            { value: 'yes', label: 'Yes' },
            { value: 'no', label: 'No' },
          ]}
          value={typeof value === 'boolean' ? (value ? 'yes' : 'no') : null}
          onChange={(next) => onChange(next === null ? null : next === 'yes')}
          clearable
        />
      );
    case 'list':
      return (
        <TagsInput
          {...common}
          value={Array.isArray(value) ? value.map(String) : []}
          onChange={(next) => onChange(next.length === 0 ? null : next)}
        />
      );
    case 'date':
      return (
        <TextInput
          {...common}
          type="date"
          value={text.slice(0, 10)}
          onChange={(event) => onChange(event.currentTarget.value || null)}
        />
      );
    case 'string':
      return (
        <TextInput
          {...common}
          value={text}
          onChange={(event) => onChange(event.currentTarget.value || null)}
        />
      );
    default:
      return type satisfies never;
  }
}
