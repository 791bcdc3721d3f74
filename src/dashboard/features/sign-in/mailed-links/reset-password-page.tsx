import { Alert, Button, PasswordInput, Stack } from '@mantine/core';
import { useState } from 'react';
import { send } from '../../../api/index.ts';
import { Failure, focusOnArrival, useSubmit } from '../../../ui/index.ts';
import { PublicCard } from '../public-card.tsx';
import { IncompleteLink, ToSignIn } from './link-parts.tsx';
import { useMailedToken } from './use-mailed-token.ts';

export function ResetPasswordPage() {
  const token = useMailedToken();
  const [password, setPassword] = useState('');
  const [isDone, setDone] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send('POST /auth/reset-password', { body: { token: token ?? '', password } });
    setDone(true);
  });
  if (token === undefined) return <IncompleteLink title="New password" />;
  return (
    <PublicCard title="New password">
      {isDone ? (
        <Alert color="teal">
          Your new password is set, and all your sessions have ended. Sign in with it.
        </Alert>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <PasswordInput
              ref={focusOnArrival}
              label="New password"
              description="At least 8 characters."
              autoComplete="new-password"
              required
              size="sm"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              error={faults['password']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              Set the password
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn />
    </PublicCard>
  );
}
