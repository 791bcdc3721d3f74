import { Select, Text, TextInput } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type Role } from '../../api/index.ts';
import { useMe, useRefusal } from '../../session/index.ts';
import {
  Action,
  ConfirmAction,
  FormDialog,
  formatWord,
  Loaded,
  Page,
  PagedTable,
  StateBadge,
} from '../../ui/index.ts';
import { PermissionChoice } from './permission-choice.tsx';

const BUILT_IN = 'Muster brings this role along; make one of your own to change it.';

/** What people may do. Nobody can give more than they have themselves. */
export function RolesPage() {
  const roles = useQuery(apiQuery('GET /roles', { query: { limit: '100' } }));
  const [edited, setEdited] = useState<Role | 'new'>();
  const refusal = useRefusal('users:write');
  const remove = useApiChange('DELETE /roles/{id}', { refreshes: ['GET /roles'] });
  return (
    <Page
      title="Roles"
      actions={
        <Action
          refusal={refusal}
          leftSection={<IconPlus size={14} aria-hidden />}
          onClick={() => setEdited('new')}
        >
          New role
        </Action>
      }
    >
      <Loaded query={roles} what="Reading roles">
        {({ data }) => (
          <PagedTable
            label="Roles"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                header: 'Name',
                isName: true,
                cell: ({ name, description }) => (
                  <>
                    {name}
                    <Text size="xs" c="dimmed">
                      {description}
                    </Text>
                  </>
                ),
              },
              {
                header: 'For',
                cell: ({ scope }) => (scope === 'organization' ? 'Customers' : formatWord(scope)),
              },
              {
                header: 'Permissions',
                cell: ({ permissions }) =>
                  permissions.includes('*:*') ? (
                    'Everything'
                  ) : (
                    <Text size="xs">{permissions.join(', ')}</Text>
                  ),
              },
              {
                header: 'Origin',
                cell: ({ isSystem }) => (
                  <StateBadge tone="neutral" label={isSystem ? 'Built in' : 'Your own'} />
                ),
              },
              {
                header: 'Actions',
                align: 'right',
                cell: (role) => (
                  <>
                    <Action
                      size="compact-xs"
                      variant="subtle"
                      refusal={role.isSystem ? BUILT_IN : refusal}
                      onClick={() => setEdited(role)}
                    >
                      Change
                    </Action>
                    <ConfirmAction
                      size="compact-xs"
                      variant="subtle"
                      refusal={role.isSystem ? BUILT_IN : refusal}
                      title={`Delete the role ${role.name}`}
                      question="A role can be deleted when nobody has it."
                      confirm="Delete"
                      run={() => remove.mutateAsync({ params: { id: role.id } })}
                    >
                      Delete
                    </ConfirmAction>
                  </>
                ),
              },
            ]}
          />
        )}
      </Loaded>
      {edited !== undefined && (
        <RoleDialog
          key={edited === 'new' ? 'new' : edited.id}
          role={edited === 'new' ? undefined : edited}
          onClose={() => setEdited(undefined)}
        />
      )}
    </Page>
  );
}

function RoleDialog({ role, onClose }: { role: Role | undefined; onClose: () => void }) {
  const me = useMe();
  const [name, setName] = useState(role?.name ?? '');
  const [description, setDescription] = useState(role?.description ?? '');
  const [scope, setScope] = useState<Role['scope']>(role?.scope ?? me.scope);
  const [permissions, setPermissions] = useState<string[]>(role?.permissions ?? []);
  const create = useApiChange('POST /roles', { refreshes: ['GET /roles'] });
  const change = useApiChange('PATCH /roles/{id}', { refreshes: ['GET /roles'] });
  const submit = () => {
    const body = { name, permissions, description: description === '' ? null : description };
    return role === undefined
      ? create.mutateAsync({ body: { ...body, scope } })
      : change.mutateAsync({ params: { id: role.id }, body });
  };
  return (
    <FormDialog
      title={role === undefined ? 'New role' : `Change ${role.name}`}
      size="lg"
      opened
      onClose={onClose}
      submit={submit}
      submitLabel={role === undefined ? 'Create role' : 'Save'}
    >
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            data-autofocus
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          <TextInput
            label="Description"
            value={description}
            onChange={(event) => setDescription(event.currentTarget.value)}
            error={faults['description']}
          />
          {role === undefined && me.scope !== 'organization' && (
            <Select
              label="For"
              allowDeselect={false}
              data={[
                { value: 'partner', label: 'People of the provider' },
                { value: 'organization', label: 'People of customers' },
              ]}
              value={scope}
              onChange={(value) => setScope(value === 'organization' ? 'organization' : 'partner')}
              error={faults['scope']}
            />
          )}
          <PermissionChoice
            label="Permissions"
            value={permissions}
            onChange={setPermissions}
            error={faults['permissions']}
          />
        </>
      )}
    </FormDialog>
  );
}
