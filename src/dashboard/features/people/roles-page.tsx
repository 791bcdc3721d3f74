import { Text } from '@mantine/core';
import { IconPlus } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { apiQuery, useApiChange, type Role } from '../../api/index.ts';
import { useMe, useRefusal } from '../../session.ts';
import {
  Action,
  ConfirmAction,
  FormDialog,
  formatWord,
  StateBadge,
  useForm,
  TwoLines,
  ListPage,
} from '../../ui/index.ts';
import { PermissionChoice } from './permission-choice.tsx';

const BUILT_IN = 'Muster brings this role along; make one of your own to change it.';

/** Roles and their permissions. A user can grant only permissions that they have. */
export function RolesPage() {
  const roles = useQuery(apiQuery('GET /roles', { query: { limit: '100' } }));
  const [edited, setEdited] = useState<Role | 'new'>();
  const refusal = useRefusal('users:write');
  const remove = useApiChange('DELETE /roles/{id}', { refreshes: ['GET /roles'] });
  return (
    <ListPage
      title="Roles"
      actions={
        <Action refusal={refusal} icon={IconPlus} onClick={() => setEdited('new')}>
          New role
        </Action>
      }
      query={roles}
      noun="roles"
      empty={{ title: 'No roles', text: 'A role says what people may do.' }}
      keyOf={({ id }) => id}
      columns={[
        {
          header: 'Name',
          isName: true,
          cell: ({ name, description }) => <TwoLines below={description}>{name}</TwoLines>,
        },
        {
          header: 'For',
          cell: ({ scope }) => (scope === 'organization' ? 'Customers' : formatWord(scope)),
        },
        {
          header: 'Permissions',
          cell: ({ permissions }) =>
            permissions.includes('*:*') ? 'Everything' : <Text size="xs">{permissions.join(', ')}</Text>,
        },
        {
          header: 'Origin',
          cell: ({ isSystem }) => <StateBadge tone="neutral" label={isSystem ? 'Built in' : 'Your own'} />,
        },
        {
          header: 'Actions',
          align: 'right',
          cell: (role) => (
            <>
              <Action inRow refusal={role.isSystem ? BUILT_IN : refusal} onClick={() => setEdited(role)}>
                Change
              </Action>
              <ConfirmAction
                inRow
                refusal={role.isSystem ? BUILT_IN : refusal}
                title={`Delete the role ${role.name}`}
                question="A role can be deleted when no person has it."
                confirm="Delete"
                run={() => remove.mutateAsync({ params: { id: role.id } })}
              >
                Delete
              </ConfirmAction>
            </>
          ),
        },
      ]}
    >
      {edited !== undefined && (
        <RoleDialog role={edited === 'new' ? undefined : edited} onClose={() => setEdited(undefined)} />
      )}
    </ListPage>
  );
}

function RoleDialog({ role, onClose }: { role: Role | undefined; onClose: () => void }) {
  const me = useMe();
  const form = useForm({
    name: role?.name ?? '',
    description: role?.description ?? null,
    scope: role?.scope ?? me.scope,
    permissions: role?.permissions ?? [],
  });
  const create = useApiChange('POST /roles', { refreshes: ['GET /roles'] });
  const change = useApiChange('PATCH /roles/{id}', { refreshes: ['GET /roles'] });
  const submit = () => {
    const { scope, ...body } = form.values;
    return role === undefined
      ? create.mutateAsync({ body: { ...body, scope } })
      : change.mutateAsync({ params: { id: role.id }, body });
  };
  return (
    <FormDialog
      title={role === undefined ? 'New role' : `Change ${role.name}`}
      size="lg"
      onClose={onClose}
      submit={submit}
      submitLabel={role === undefined ? 'Create role' : 'Save'}
      form={form}
      fields={[
        { name: 'name', label: 'Name', required: true },
        { name: 'description', label: 'Description', empty: null },
        role === undefined &&
          me.scope !== 'organization' && {
            name: 'scope',
            kind: 'choice',
            label: 'For',
            options: [
              { value: 'partner', label: 'People of the provider' },
              { value: 'organization', label: 'People of customers' },
            ],
          },
        { name: 'permissions', control: (field) => <PermissionChoice label="Permissions" {...field} /> },
      ]}
    />
  );
}
