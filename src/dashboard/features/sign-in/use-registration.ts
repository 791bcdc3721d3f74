import { useQuery } from '@tanstack/react-query';
import { send } from '../../api/index.ts';

/** Whether people can register themselves on this server. */
export const useRegistration = () =>
  useQuery({
    queryKey: ['registration'],
    queryFn: ({ signal }) => send('GET /auth/registration', {}, { signal }),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });
