import { Alert, Anchor } from '@mantine/core';
import { Link } from '@tanstack/react-router';
import { PublicCard } from '../public-card.tsx';

export function ToSignIn({ label = 'Go to the sign-in' }: { label?: string }) {
  return (
    <Anchor size="sm" renderRoot={(props) => <Link {...props} to="/login" />}>
      {label}
    </Anchor>
  );
}

/** For an address that was opened without the token of a mail. */
export function IncompleteLink({ title }: { title: string }) {
  return (
    <PublicCard title={title}>
      <Alert color="orange">
        This address is not complete. Open the link of the mail again, whole, up to its last letter.
      </Alert>
      <ToSignIn />
    </PublicCard>
  );
}
