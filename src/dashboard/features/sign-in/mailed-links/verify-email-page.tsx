import { Alert, Button, PasswordInput, Stack } from '@mantine/core';
import { useState } from 'react';
import { send } from '../../../api/index.ts';
import { Failure, useSubmit } from '../../../ui/index.ts';
import { PublicCard } from '../public-card.tsx';
import { IncompleteLink, ToSignIn } from './link-parts.tsx';
import { useMailedToken } from './use-mailed-token.ts';

export function VerifyEmailPage() {
  const token = useMailedToken();
  const [password, setPassword] = useState('');
  const [isDone, setDone] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send('POST /auth/verify-email', { body: { token: token ?? '', password } });
    setDone(true);
  });
  if (token === undefined) return <IncompleteLink title="Confirm your address" />;
  return (
    <PublicCard
      title="Confirm your address"
      text="The password that you chose at the registration shows that it was you who registered."
    >
      {isDone ? (
        <Alert color="teal">Your address is confirmed.</Alert>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <PasswordInput
              label="Password"
              autoComplete="current-password"
              required
              size="sm"
              value={password}
              onChange={(event) => setPassword(event.currentTarget.value)}
              error={faults['password']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              Confirm
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn />
    </PublicCard>
  );
}
