-- A starting executor asks for what was interrupted, and must not read every action there ever was for it.
CREATE INDEX action_prepared ON action (authorised_at) WHERE state = 'prepared';
