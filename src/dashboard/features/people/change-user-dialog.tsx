import { Select, TextInput } from '@mantine/core';
import { useState } from 'react';
import { useApiChange, type User } from '../../api/index.ts';
import { FormDialog } from '../../ui/index.ts';
import { useRoles } from './use-roles.ts';

/** Changes the name, the role and whether the person may sign in. */
export function ChangeUserDialog({ user, onClose }: { user: User; onClose: () => void }) {
  const roles = useRoles(user.scope);
  const [name, setName] = useState(user.name);
  const [roleId, setRoleId] = useState<string | null>(user.roleId);
  const [isDisabled, setDisabled] = useState(user.status === 'disabled');
  const change = useApiChange('PATCH /users/{id}', { refreshes: ['GET /users'] });
  const giveRole = useApiChange('POST /users/{id}/role', { refreshes: ['GET /users'] });
  const submit = async () => {
    const { id } = user;
    if (roleId !== null && roleId !== user.roleId) {
      await giveRole.mutateAsync({ params: { id }, body: { roleId } });
    }
    const body = {
      ...(name === user.name ? {} : { name }),
      ...(isDisabled === (user.status === 'disabled')
        ? {}
        : { status: isDisabled ? ('disabled' as const) : ('active' as const) }),
    };
    if (Object.keys(body).length > 0) await change.mutateAsync({ params: { id }, body });
  };
  return (
    <FormDialog title={`Change ${user.name}`} opened onClose={onClose} submit={submit} submitLabel="Save">
      {(faults) => (
        <>
          <TextInput
            label="Name"
            required
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            error={faults['name']}
          />
          <Select
            label="Role"
            searchable
            allowDeselect={false}
            data={roles.map(({ id, name: label }) => ({ value: id, label }))}
            value={roleId}
            onChange={setRoleId}
            error={faults['roleId']}
          />
          {user.status !== 'invited' && (
            <Select
              label="Access"
              allowDeselect={false}
              data={[
                { value: 'active', label: 'May sign in' },
                { value: 'disabled', label: 'May not sign in; all sessions end' },
              ]}
              value={isDisabled ? 'disabled' : 'active'}
              onChange={(value) => setDisabled(value === 'disabled')}
              error={faults['status']}
            />
          )}
        </>
      )}
    </FormDialog>
  );
}
