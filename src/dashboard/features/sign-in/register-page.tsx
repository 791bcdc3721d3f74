import { Button, Checkbox, PasswordInput, Stack, Text, TextInput } from '@mantine/core';
import { useState } from 'react';
import { send } from '../../api/index.ts';
import { EMAIL_INPUT, Failure, useSubmit, Notice } from '../../ui/index.ts';
import { ToSignIn, PublicCard, useRegistration } from './public-card.tsx';

/** Registers a provider, if the server allows it; otherwise says how people come in. */
export function RegisterPage() {
  const [fields, setFields] = useState({ companyName: '', name: '', email: '', password: '' });
  const [accepts, setAccepts] = useState(false);
  const [isSent, setSent] = useState(false);
  const { onSubmit, isBusy, failure, faults } = useSubmit(async () => {
    await send('POST /auth/register-partner', {
      body: { ...fields, email: fields.email.trim(), acceptTerms: true },
    });
    setSent(true);
  });
  const field = (name: keyof typeof fields) => ({
    required: true,
    size: 'sm',
    value: fields[name],
    onChange: (event: { currentTarget: { value: string } }) => {
      const { value } = event.currentTarget;
      setFields((before) => ({ ...before, [name]: value }));
    },
    error: faults[name],
  });
  const registration = useRegistration();
  if (registration.data?.enabled === false) return <NoRegistration />;
  return (
    <PublicCard title="Register your company">
      {isSent ? (
        <Notice tone="good">
          Look into your mail: a link there confirms your address. The operator of this server then approves
          your company.
        </Notice>
      ) : (
        <form onSubmit={onSubmit}>
          <Stack>
            <TextInput label="Company" autoComplete="organization" {...field('companyName')} />
            <TextInput label="Your name" autoComplete="name" {...field('name')} />
            <TextInput label="E-mail address" {...EMAIL_INPUT} autoComplete="username" {...field('email')} />
            <PasswordInput
              label="Password"
              description="At least 8 characters."
              autoComplete="new-password"
              {...field('password')}
            />
            <Checkbox
              label="I accept the terms of the operator of this server."
              checked={accepts}
              onChange={(event) => setAccepts(event.currentTarget.checked)}
              required
              error={faults['acceptTerms']}
            />
            {failure !== undefined && <Failure error={failure} />}
            <Button type="submit" size="sm" loading={isBusy}>
              Register
            </Button>
          </Stack>
        </form>
      )}
      <ToSignIn label="I have an account" />
    </PublicCard>
  );
}

function NoRegistration() {
  return (
    <PublicCard title="No registration on this server">
      <Text size="sm">
        Accounts are created by invitation. Ask your provider, or the administrator of this server, to invite
        you.
      </Text>
      <ToSignIn label="I have an account" />
    </PublicCard>
  );
}
