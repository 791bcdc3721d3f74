import { Select, Textarea, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { keepPreviousData, useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { apiQuery, useApiChange, type CustomField } from '../../api/index.ts';
import { useNames, useOrganizations } from '../../directory/index.ts';
import { useScope } from '../../routing/index.ts';
import { useMe, useRefusal } from '../../session/index.ts';
import { Action, ConfirmAction, Empty, FormDialog, Loaded, PagedTable } from '../../ui/index.ts';
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
  const { page } = route.useSearch();
  const navigate = route.useNavigate();
  const { orgId } = useScope();
  const names = useNames();
  const refusal = useRefusal('devices:write');
  const [edited, setEdited] = useState<CustomField | 'new'>();
  const fields = useQuery({
    ...apiQuery('GET /custom-fields', { query: { orgId, page: String(page ?? 1) } }),
    placeholderData: keepPreviousData,
  });
  const remove = useApiChange('DELETE /custom-fields/{id}', { refreshes: ['GET /custom-fields'] });
  const add = (
    <Action
      refusal={refusal}
      leftSection={<IconPlus size={14} aria-hidden />}
      onClick={() => setEdited('new')}
    >
      New field
    </Action>
  );
  return (
    <SettingsFrame
      title="Custom fields"
      description="What you want to know of devices beyond what agents report. Filters find devices by them."
      actions={add}
    >
      <Loaded query={fields} what="Reading fields">
        {({ data, pagination }) =>
          data.length === 0 ? (
            <Empty title="No custom fields" action={add}>
              Such as an inventory number, the person who uses the device, or the end of its warranty.
            </Empty>
          ) : (
            <PagedTable
              label="Custom fields"
              rows={data}
              keyOf={({ id }) => id}
              page={pagination}
              onPage={(next) => void navigate({ search: (previous) => ({ ...previous, page: next }) })}
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
                      <Action
                        size="compact-xs"
                        variant="subtle"
                        refusal={refusal}
                        onClick={() => setEdited(field)}
                      >
                        Change
                      </Action>
                      <ConfirmAction
                        size="compact-xs"
                        variant="subtle"
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
            />
          )
        }
      </Loaded>
      {edited !== undefined && (
        <FieldDialog {...(edited === 'new' ? {} : { field: edited })} onClose={() => setEdited(undefined)} />
      )}
    </SettingsFrame>
  );
}

const keyOf = (name: string) =>
  name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '_')
    .replaceAll(/^[_\d]+|_+$/g, '')
    .slice(0, 64);

function FieldDialog({ field, onClose }: { field?: CustomField; onClose: () => void }) {
  const me = useMe();
  const scope = useScope();
  const organizations = useOrganizations();
  const [org, setOrg] = useState<string | null>(scope.orgId ?? me.orgId ?? null);
  const orgId = org ?? (organizations.length === 1 ? (organizations[0]?.id ?? '') : '');
  const [name, setName] = useState(field?.name ?? '');
  const [key, setKey] = useState<string>();
  const [type, setType] = useState<CustomField['type']>(field?.type ?? 'string');
  const [description, setDescription] = useState(field?.description ?? '');
  const create = useApiChange('POST /custom-fields', { refreshes: ['GET /custom-fields'] });
  const change = useApiChange('PATCH /custom-fields/{id}', { refreshes: ['GET /custom-fields'] });
  const submit = () => {
    const body = { name, type, description: description.trim() === '' ? null : description };
    return field === undefined
      ? create.mutateAsync({ body: { ...body, orgId, key: key ?? keyOf(name) } })
      : change.mutateAsync({ params: { id: field.id }, body });
  };
  return (
    <FormDialog
      opened
      title={field === undefined ? 'New custom field' : `Change “${field.name}”`}
      onClose={onClose}
      submit={submit}
      submitLabel={field === undefined ? 'Create field' : 'Save'}
    >
      {(faults) => (
        <>
          {field === undefined && me.scope !== 'organization' && (
            <Select
              label="Organization"
              required
              searchable
              data={organizations.map(({ id, name: label }) => ({ value: id, label }))}
              value={orgId === '' ? null : orgId}
              onChange={setOrg}
              error={faults['orgId']}
            />
          )}
          <TextInput
            label="Name"
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          {field === undefined && (
            <TextInput
              label="Key"
              description="For filters and programs. It cannot be changed."
              required
              value={key ?? keyOf(name)}
              onChange={(event) => setKey(event.currentTarget.value)}
              error={faults['key']}
            />
          )}
          <Select
            label="Type"
            description={field === undefined ? undefined : 'Can be changed while no device has a value.'}
            allowDeselect={false}
            data={[...TYPES]}
            value={type}
            onChange={(value) => setType(TYPES.find((known) => known.value === value)?.value ?? type)}
            error={faults['type']}
          />
          <Textarea
            label="Description"
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
            error={faults['description']}
          />
        </>
      )}
    </FormDialog>
  );
}
