import { Alert, Button, Stack, TextInput } from '@mantine/core';
import { useState } from 'react';
import { send } from '../../../api/index.ts';
import { EMAIL_INPUT, Failure, focusOnArrival, useSubmit } from '../../../ui/index.ts';
import { PublicCard } from '../public-card.tsx';
import { ToSignIn } from './link-parts.tsx';

export function ForgotPasswordPage() {
  const [email, setEmail] = useState('');
  const [isSent, setSent] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send('POST /auth/forgot-password', { body: { email: email.trim() } });
    setSent(true);
  });
  return (
    <PublicCard title="Forgotten password" text="We mail you a link with which you can set a new one.">
      {isSent ? (
        <Alert color="teal">
          If there is an account with this address, a mail is on its way. Its link works for an hour. Look
          into the folder for unwanted mail as well.
        </Alert>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <TextInput
              ref={focusOnArrival}
              label="E-mail address"
              {...EMAIL_INPUT}
              autoComplete="username"
              required
              size="sm"
              value={email}
              onChange={(event) => setEmail(event.currentTarget.value)}
              error={faults['email']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              Mail me a link
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn />
    </PublicCard>
  );
}
