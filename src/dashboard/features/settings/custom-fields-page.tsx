import { IconPlus } from '@tabler/icons-react';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { useApiChange, useList, type CustomField } from '../../api/index.ts';
import { useFirstOrganization, useNames, useOrganizationChoice } from '../../directory.ts';
import { useScope } from '../../routing.ts';
import { useRefusal } from '../../session.ts';
import { Action, ConfirmAction, FormDialog, ListPage, useAddress, useForm } from '../../ui/index.ts';
import { SettingsFrame } from './settings-frame.tsx';

const route = getRouteApi('/signed-in/settings/custom-fields');
const TYPES = [
  { value: 'string', label: 'Text' },
  { value: 'number', label: 'Number' },
  { value: 'boolean', label: 'Yes or no' },
  { value: 'date', label: 'Date' },
  { value: 'list', label: 'List of texts' },
] as const;
const typeName = (type: CustomField['type']) => TYPES.find(({ value }) => value === type)?.label ?? type;

/** Fields of devices that an organization adds. */
export function CustomFieldsPage() {
  const address = useAddress(route.useSearch());
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('devices:write');
  const [edited, setEdited] = useState<CustomField | 'new'>();
  const fields = useList('GET /custom-fields', {
    query: { orgId, page: String(address.search.page ?? 1) },
  });
  const remove = useApiChange('DELETE /custom-fields/{id}', { refreshes: ['GET /custom-fields'] });
  const add = (
    <Action icon={IconPlus} refusal={refusal} onClick={() => setEdited('new')}>
      New field
    </Action>
  );
  return (
    <ListPage
      frame={SettingsFrame}
      title="Custom fields"
      description="What you want to know of devices beyond what agents report. Filters find devices by them."
      actions={add}
      query={fields}
      noun="custom fields"
      keyOf={({ id }) => id}
      address={address}
      empty={{
        title: 'No custom fields',
        text: 'Such as an inventory number, the person who uses the device, or the end of its warranty.',
        action: add,
      }}
      columns={[
        { header: 'Name', isName: true, cell: ({ name }) => name },
        { header: 'Key', cell: ({ key }) => key },
        { header: 'Type', cell: ({ type }) => typeName(type) },
        { header: 'Organization', cell: (field) => names.organization(field.orgId) },
        { header: 'Description', cell: ({ description }) => description ?? '–' },
        {
          header: 'Actions',
          align: 'right',
          cell: (field) => (
            <>
              <Action inRow refusal={refusal} onClick={() => setEdited(field)}>
                Change
              </Action>
              <ConfirmAction
                inRow
                refusal={refusal}
                title={`Delete “${field.name}”`}
                question="The field and its values on all devices are deleted. This cannot be undone."
                confirm="Delete"
                run={() => remove.mutateAsync({ params: { id: field.id } })}
              >
                Delete
              </ConfirmAction>
            </>
          ),
        },
      ]}
    >
      {edited !== undefined && (
        <FieldDialog field={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
    </ListPage>
  );
}

const keyOf = (name: string) =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[_\d]+|_+$/g, '')
    .slice(0, 64);

function FieldDialog({ field, onClose }: { field: CustomField | undefined; onClose: () => void }) {
  const organization = useOrganizationChoice();
  const first = useFirstOrganization();
  const form = useForm({
    orgId: field?.orgId,
    name: field?.name ?? '',
    key: field?.key,
    type: field?.type ?? ('string' as const),
    description: field?.description ?? null,
  });
  const { orgId = first, key = keyOf(form.values.name), ...body } = form.values;
  const create = useApiChange('POST /custom-fields', { refreshes: ['GET /custom-fields'] });
  const change = useApiChange('PATCH /custom-fields/{id}', { refreshes: ['GET /custom-fields'] });
  return (
    <FormDialog
      title={field === undefined ? 'New custom field' : `Change “${field.name}”`}
      onClose={onClose}
      submit={() =>
        field === undefined
          ? create.mutateAsync({ body: { ...body, orgId: orgId ?? '', key } })
          : change.mutateAsync({ params: { id: field.id }, body })
      }
      submitLabel={field === undefined ? 'Create field' : 'Save'}
      form={form}
      fields={[
        field === undefined && organization && { name: 'orgId', ...organization, shown: orgId },
        { name: 'name', label: 'Name', required: true },
        field === undefined && {
          name: 'key',
          label: 'Key',
          description: 'For filters and programs. It cannot be changed.',
          required: true,
          shown: key,
          empty: undefined,
        },
        {
          name: 'type',
          kind: 'choice',
          label: 'Type',
          description: field === undefined ? undefined : 'Can be changed while no device has a value.',
          options: TYPES,
        },
        { name: 'description', kind: 'area', label: 'Description', empty: null },
      ]}
    />
  );
}
