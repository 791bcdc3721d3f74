import { Alert, Button, PasswordInput, Stack } from '@mantine/core';
import { useState } from 'react';
import { call } from '../../api/index.ts';
import { Failure, useSubmit } from '../../ui/index.ts';

export function PasswordForm() {
  const [currentPassword, setCurrent] = useState('');
  const [newPassword, setNew] = useState('');
  const [isSaved, setSaved] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    setSaved(false);
    await call('POST /auth/change-password', { body: { currentPassword, newPassword } });
    setCurrent('');
    setNew('');
    setSaved(true);
  });
  return (
    <form onSubmit={onSubmit}>
      <Stack align="flex-start">
        <PasswordInput
          label="Current password"
          required
          w="100%"
          autoComplete="current-password"
          value={currentPassword}
          onChange={(event) => setCurrent(event.currentTarget.value)}
          error={faults['currentPassword']}
        />
        <PasswordInput
          label="New password"
          description="At least 8 characters, with a small letter, a capital letter and a digit."
          required
          w="100%"
          autoComplete="new-password"
          value={newPassword}
          onChange={(event) => setNew(event.currentTarget.value)}
          error={faults['newPassword']}
        />
        {failure !== undefined && <Failure error={failure} />}
        {isSaved && <Alert color="teal">Your password is changed, and your other sessions have ended.</Alert>}
        <Button type="submit" loading={isBusy}>
          Change the password
        </Button>
      </Stack>
    </form>
  );
}
